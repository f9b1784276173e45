"""The files of a run: its folder, checkpoints, history and pictures.

Others use ``run_folder`` (RunFolder: begun, reopened to resume, finished), ``checkpoint``, ``history`` (history.jsonl:
a line for each round, with the fields of ``core.round_record.RoundRecord``), ``clients`` (clients.jsonl: who gave what
to a round, who came and went), ``run_summary`` (summary.json; how failed evaluations, lost slots and skipped steps are
counted), ``finished_run`` (load_run, export), ``plots``, ``axes`` (zofedht.plot) and ``lock`` (FolderLock).
``about`` is run.json: the engine, the digests of data, the dealt shards.
``way_on`` names the command that goes on with a run that has failed, and ``rebuild_in_place`` leads an objective that
holds the start of a run in place to its end.
"""
