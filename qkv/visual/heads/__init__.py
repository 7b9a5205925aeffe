"""What the heads of a model attend to over a corpus, how alike they are, and which of them matter."""
