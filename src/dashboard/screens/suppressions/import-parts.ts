/** @module The parts in which a suppression list is sent, and the lines of the file that they come from. */
import type { FileEntry, FilePreview } from './read-file.ts'

const MAX_LINES = 1000
const MAX_PART_LENGTH = 256 * 1024

export interface ImportPart {
  readonly csv: string
  readonly entries: readonly FileEntry[]
}

/** The part that begins with an entry. */
export function toPart({ header, entries }: Pick<FilePreview, 'header' | 'entries'>, from: number): ImportPart {
  const chosen: FileEntry[] = []
  let length = 0
  for (let index = from; index < entries.length && chosen.length < MAX_LINES; index++) {
    const entry = entries[index]
    if (!entry || length + entry.text.length > MAX_PART_LENGTH) break
    length += entry.text.length
    chosen.push(entry)
  }
  const lines = [...(header === undefined ? [] : [header]), ...chosen.map(({ text }) => text)]
  return { csv: `${lines.join('\r\n')}\r\n`, entries: chosen }
}

/** The line of the file that a line of a part comes from. */
export function toFileLine(part: ImportPart, header: string | undefined, lineOfPart: number): number {
  let line = header === undefined ? 1 : 1 + countLines(header)
  for (const entry of part.entries) {
    const next = line + countLines(entry.text)
    if (lineOfPart < next) return entry.line
    line = next
  }
  return part.entries.at(-1)?.line ?? lineOfPart
}

const countLines = (text: string): number => (text.match(/\r\n|\r|\n/g)?.length ?? 0) + 1
