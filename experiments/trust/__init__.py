"""What false clients and curious servers can do: ``liars`` lets clients lie, and measures every aggregation rule;
``curious`` rebuilds a client's rows from its slopes."""
