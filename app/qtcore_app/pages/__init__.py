"""One module per page; each has a function `page(shell)` that returns its view."""
