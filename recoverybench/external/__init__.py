"""Anybody's training command, unchanged: started, watched from outside, broken and timed.

The supervisor's side of workloads of kind ``command``: what one is (`spec`), what its output and
its marks say (`lines`, `output`, `receiver`), which processes it has (`processes`), the job as
faults see it (`job`), one trial of it (`trial`), and what came of it (`history`, `timeline`,
`losses`, `record`).
"""
