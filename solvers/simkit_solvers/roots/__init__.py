"""Fixed points and roots, with derivatives by the implicit function theorem."""
