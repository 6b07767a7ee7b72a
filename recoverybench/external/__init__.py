"""Anybody's training command, unchanged: started, watched from outside, broken and timed.

The supervisor's side of workloads of kind ``command``: what one is (`spec`, `adhoc`), what its
output and its marks say (`lines`, `output`, `receiver`), which processes it has (`processes`), how
it is started (`start`), the job as faults see it (`job`, `rank`), one trial of it (`trial`,
`reference`, `measure`), what came of it (`marks`, `losses`, `timeline`, `record`), and what cannot
be asked of it (`support`).
"""
