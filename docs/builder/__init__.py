"""Makes the pages of the site: those that people wrote, and the reference, which the code writes about itself."""
