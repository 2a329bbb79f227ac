"""Pictures of the dashboard, and what it takes to make them: a browser, a plane with something to show, all of its pages."""
