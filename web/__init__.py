"""The pages' templates and static files; `control.pages` serves them."""
