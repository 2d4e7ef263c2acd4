"""What the journal's bytes mean: the event vocabulary, the codec, the folds and the catalog of their tables. Pure."""
