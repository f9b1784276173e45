"""Files of data, read: csv, npz, Parquet, svmlight and IDX become rows, labels and names of columns.

Others use ``dataset_files`` (read_file: any of them), ``reading`` (FileRules, RawRows), ``tables`` (rows of a DataFrame
or of text cells), ``label_texts`` (labels that are no numbers) and ``columns`` (which column is the label, an index or
a feature, by name). ``csv_files``, with ``csv_layout`` (separator, header line) and ``csv_cells`` (notations of
numbers), ``idx_files`` and ``svmlight_files`` read one kind each.
"""
