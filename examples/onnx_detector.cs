/**
 * An exported detector on pictures, from C#.
 *
 *     dotnet new console -o detector && cp examples/onnx_detector.cs detector/Program.cs
 *     dotnet add detector package Microsoft.ML.OnnxRuntime
 *     dotnet run --project detector detector.onnx photo.ppm .5
 *
 * The picture is a binary PPM (`convert photo.jpg photo.ppm`) so that nothing else is needed; any decoder that gives
 * RGB bytes row by row will do. The last number is the least probability of a box, 0 unless given.
 */

using System.Globalization;
using System.Text;
using System.Text.Json;
using System.Text.RegularExpressions;
using Microsoft.ML.OnnxRuntime;
using Microsoft.ML.OnnxRuntime.Tensors;

float least = args.Length > 2 ? float.Parse(args[2], CultureInfo.InvariantCulture) : 0;
using var session = new InferenceSession(args[0]);
var picture = NamedOnnxValue.CreateFromTensor("picture", PictureOf(File.ReadAllBytes(args[1])));
var classes = JsonSerializer.Deserialize<string[]>(session.ModelMetadata.CustomMetadataMap["classes"])!;
if (session.OutputMetadata.ContainsKey("decision")) PrintDecision();
PrintDetections();

// Prints the decision on the picture: -1 is unknown, 0 is ok, k the k-th class.
void PrintDecision()
{
    using var found = session.Run(new[] { picture }, new[] { "decision", "probability" });
    long number = found[0].AsEnumerable<long>().Single();
    string decision = number < 0 ? "unknown" : number == 0 ? "ok" : classes[number - 1];
    Console.WriteLine(JsonSerializer.Serialize(new { decision, probability = found[1].AsEnumerable<float>().Single() }));
}

// Prints the boxes of the picture that have at least a probability; NaN stands for a class without probabilities.
void PrintDetections()
{
    using var found = session.Run(new[] { picture }, new[] { "boxes", "classes", "scores", "probabilities" });
    float[] boxes = found[0].AsEnumerable<float>().ToArray(), scores = found[2].AsEnumerable<float>().ToArray();
    float[] probabilities = found[3].AsEnumerable<float>().ToArray();
    long[] numbers = found[1].AsEnumerable<long>().ToArray();
    var rows = Enumerable.Range(0, numbers.Length).Where(row => !(probabilities[row] < least)).Select(row => new
    {
        @class = classes[numbers[row]],
        box = boxes[(4 * row)..(4 * row + 4)],
        score = scores[row],
        probability = float.IsNaN(probabilities[row]) ? (float?)null : probabilities[row],
    });
    Console.WriteLine(JsonSerializer.Serialize(rows));
}

// Returns the bytes of a binary PPM as the tensor (height, width, 3).
static DenseTensor<byte> PictureOf(byte[] content)
{
    var header = Regex.Match(Encoding.Latin1.GetString(content), @"^P6\s+(?:#.*\s+)*(\d+)\s+(\d+)\s+255\s");
    if (!header.Success) throw new InvalidDataException("the picture must be a binary PPM (P6) with 8 bits a channel");
    int width = int.Parse(header.Groups[1].Value), height = int.Parse(header.Groups[2].Value);
    return new DenseTensor<byte>(content.AsMemory(header.Length, width * height * 3), new[] { height, width, 3 });
}
