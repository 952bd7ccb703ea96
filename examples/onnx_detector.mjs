/**
 * An exported detector on pictures, from JavaScript.
 *
 *     npm install onnxruntime-node
 *     node examples/onnx_detector.mjs detector.onnx photo.ppm .5
 *
 * The picture is a binary PPM (`convert photo.jpg photo.ppm`) so that nothing else is needed; any decoder that gives
 * RGB bytes row by row will do. In a browser the package is onnxruntime-web and the calls are the same.
 */

import { readFile } from "node:fs/promises";
import { argv } from "node:process";
import ort from "onnxruntime-node";

/** Return the bytes of a binary PPM as the tensor (height, width, 3). */
function pictureOf(content) {
  const header = /^P6\s+(?:#.*\s+)*(\d+)\s+(\d+)\s+255\s/.exec(content.toString("latin1", 0, 1000));
  if (!header) throw new Error("the picture must be a binary PPM (P6) with 8 bits a channel");
  const [width, height] = header.slice(1).map(Number);
  const start = header[0].length;
  return new ort.Tensor("uint8", content.subarray(start, start + width * height * 3), [height, width, 3]);
}

/** Return the boxes of a picture that have at least a probability; `class` is an index into the exported classes. */
async function detections(session, picture, least) {
  const found = await session.run({ picture }, ["boxes", "classes", "scores", "probabilities"]);
  const rows = Array.from(found.scores.data, (score, row) => ({
    class: Number(found.classes.data[row]),
    box: Array.from(found.boxes.data.subarray(4 * row, 4 * row + 4)),
    score,
    probability: found.probabilities.data[row],
  }));
  return rows.filter((row) => !(row.probability < least));
}

/** Return the decision on a picture: 0 is ok, k the k-th of the exported classes, -1 unknown. */
async function decision(session, picture) {
  const found = await session.run({ picture }, ["decision", "probability"]);
  return { decision: Number(found.decision.data[0]), probability: found.probability.data[0] };
}

const [detector, photo, least] = argv.slice(2);
const session = await ort.InferenceSession.create(detector);
const picture = pictureOf(await readFile(photo));
if (session.outputNames.includes("decision")) console.log(JSON.stringify(await decision(session, picture)));
console.log(JSON.stringify(await detections(session, picture, Number(least ?? 0))));
