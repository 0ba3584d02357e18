"""``convs2s serve``: translations over HTTP, and a page to try models with."""
