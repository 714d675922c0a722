/** @module The dark squares of a QR code as the data of one SVG path. */

/** @param matrix rows of modules; true: dark. The unit of the path is one module. */
export const toQrPath = (matrix: readonly (readonly boolean[])[]): string =>
  matrix
    .map((row, y) =>
      toRuns(row)
        .map(({ start, length }) => `M${start} ${y}h${length}v1h-${length}z`)
        .join(''),
    )
    .join('')

interface Run {
  readonly start: number
  readonly length: number
}

/** Dark modules that follow each other are drawn as one rectangle, without seams. */
function toRuns(row: readonly boolean[]): Run[] {
  const runs: Run[] = []
  let start = -1
  for (let x = 0; x <= row.length; x++) {
    if (row[x] === true && start < 0) start = x
    else if (row[x] !== true && start >= 0) {
      runs.push({ start, length: x - start })
      start = -1
    }
  }
  return runs
}
