/** @module Wraps a line of text at a width, as Jinja's `wordwrap` does with Python's textwrap. */
import { sliceCharacters, splitCharacters } from './filter-arguments.ts'

export interface WrapOptions {
  /** Characters, at least 1. */
  readonly width: number
  /** Whether to break a word that is longer than a line; otherwise the word gets a line of its own. */
  readonly breaksWords: boolean
  readonly breaksAtHyphens: boolean
}

/** White space, or a part of a word that must stay together. */
const PIECES = /[ \t\v\f]+|[^ \t\v\f]+/g
/** Matches the position after a hyphen that has two letters on each side. */
const HYPHENS = /(?<=\p{L}{2}-)(?=\p{L}{2})/u

export function wrapLine(line: string, { width, breaksWords, breaksAtHyphens }: WrapOptions): readonly string[] {
  const pieces = (line.match(PIECES) ?? []).flatMap((piece) => (breaksAtHyphens ? piece.split(HYPHENS) : [piece]))
  const lines: string[] = []
  let current: string[] = []
  let length = 0
  const finish = (): void => {
    if (current.at(-1)?.trim() === '') current.pop()
    if (current.length > 0) lines.push(current.join(''))
    current = []
    length = 0
  }
  const add = (text: string, size: number): void => {
    // Only the first line may begin with white space.
    if (text.trim() === '' && current.length === 0 && lines.length > 0) return
    current.push(text)
    length += size
  }
  for (const piece of pieces) {
    const characters = splitCharacters(piece)
    const size = characters.length
    if (length + size <= width) add(piece, size)
    else if (size <= width) {
      finish()
      add(piece, size)
    } else if (!breaksWords) {
      finish()
      add(piece, size)
    } else {
      // A word longer than a line begins on the current line if that has space left.
      let from = 0
      while (from < size) {
        if (length >= width) finish()
        const until = Math.min(from + width - length, size)
        add(sliceCharacters(characters, from, until), until - from)
        from = until
      }
    }
  }
  finish()
  return lines
}
