"""Figures and costs of all learners on the same shards.

``python benchmarks/protocols/learners.py --data voc --root VOC --shards-from RUN --out DIR``
"""

from protocol import command

main = command("learners", __doc__, methods="latent_ap,latent_ndcg,latent_auc,latent_svm,mean_svm")

if __name__ == "__main__":
    main()
