"""The gain of each learner from oracle windows of 0, 25, 50, 75 and 100 % of the positive pictures.

``python benchmarks/protocols/supervision.py --data voc --root VOC --shards-from RUN --out DIR`` repeats
section 4.1 of A. Behl's thesis, "Optimizing Average Precision using Weakly Supervised Data", on other pictures.
"""

from protocol import command

main = command("supervision", __doc__, shares="0,25,50,75,100")

if __name__ == "__main__":
    main()
