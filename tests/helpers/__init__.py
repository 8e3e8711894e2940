"""What several tests share: pages in a browser, submissions, programs that crash, a student's computer."""
