"""The query language's place (design: query-language.md). Nothing of it is built yet.

Its units are views of the catalog (facts.catalog_views).
"""
