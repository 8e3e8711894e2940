"""The course as pages to read: notebooks with their outputs, the guides, and what the library offers."""
