"""Characters with HOG: classify pictures by the digit in them, its window latent, over several draws of the pictures.

``python benchmarks/protocols/characters.py --out DIR`` repeats the second experiment of A. Behl's thesis,
"Optimizing Average Precision using Weakly Supervised Data" (section 4.0.2), on the embedded digits: HOG of the window
at 48 x 48 pixels, few windows per picture, five folds, the lowest objective of three random starts.
"""

from protocol import command

main = command("characters", __doc__, data="digits", first=50, starts=3, seeds=5)

if __name__ == "__main__":
    main()
