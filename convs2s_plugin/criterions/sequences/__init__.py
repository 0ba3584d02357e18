"""Training on the candidate translations of whole sentences (Edunov et al. 2018).

``search`` finds candidates with the current model and ``candidate_file`` reads them from n-best
lists; ``candidates`` compares them with the reference and puts them into batches, and
``scoring`` computes the model's scores and the loss. ``criterions.sequence_risk`` uses them all.
"""
