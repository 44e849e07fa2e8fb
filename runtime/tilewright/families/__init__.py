"""The families that come with Tilewright, a package each. `declarations.families` finds them."""
