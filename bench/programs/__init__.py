"""What the bench starts as processes of their own: the service, its peers, a static marketplace."""
