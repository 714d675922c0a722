/**
 * Maps each input, at most `maxConcurrent` at a time; the outputs are in the order of the inputs. Rejects with the first
 * error; the other inputs are mapped nevertheless.
 */
export async function mapConcurrently<Input, Output>(
  inputs: readonly Input[],
  maxConcurrent: number,
  map: (input: Input) => Promise<Output>,
): Promise<Output[]> {
  const outputs: Output[] = []
  const rest = inputs.entries()
  const work = async () => {
    for (const [index, input] of rest) outputs[index] = await map(input)
  }
  await Promise.all(Array.from({ length: maxConcurrent }, work))
  return outputs
}
