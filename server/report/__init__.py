"""What a finished run leaves for people: report.html and settings.toml.

Others use ``write`` (write_report, write_settings) and ``curve`` (curve_svg: losses as an inline picture).
"""
