"""The files of the page and the reference, and the interface document."""
