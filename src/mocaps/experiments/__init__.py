"""The paper's tables: experiments as files, their runs, their reports, and tables of the reports.

files and results read, and import no torch; trial does the work of one experiment and one seed, in
a process of its own; runner has trials done side by side; render writes tables down.
"""
