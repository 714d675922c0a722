/** @module Which features of a message the big mail clients do not fully support. Pure. */
import { scanHtml } from './scan.ts'
import type { EmailSupport, Feature } from './support-data.ts'

export interface Problem {
  readonly slug: string
  readonly title: string
  readonly count: number
  /** Lines where it is first used, from 1. */
  readonly lines: readonly number[]
  /** The first of these lines, shortened. */
  readonly excerpt: string
  /** Names of clients without support, and with partial support; of a family if all its clients are meant. */
  readonly without: readonly string[]
  readonly partly: readonly string[]
  readonly notes: readonly SupportNote[]
  readonly unsupported: number
  /** Of the clients with a known answer, how many support it fully. */
  readonly supported: number
  readonly known: number
}

/** What is special in some clients. */
export interface SupportNote {
  readonly clients: readonly string[]
  readonly text: string
}

const MAX_LINES = 5
const MAX_EXCERPT_LENGTH = 120

/** The problems, with those first that most clients have. */
export function checkHtml(html: string, { clients, features }: EmailSupport): Problem[] {
  const uses = scanHtml(html)
  const lineStarts = findLineStarts(html)
  const problems = features.flatMap((feature): Problem[] => {
    const found = feature.tokens.flatMap((token) => uses.get(token) ?? [])
    if (found.length === 0) return []
    const offsets = found.flatMap((use) => use.offsets).toSorted((a, b) => a - b)
    const lines = [...new Set(offsets.map((offset) => findLine(lineStarts, offset)))]
    const first = lines[0] ?? 1
    return [
      {
        slug: feature.slug,
        title: feature.title,
        count: found.reduce((sum, { count }) => sum + count, 0),
        lines: lines.slice(0, MAX_LINES),
        excerpt: readExcerpt(html, lineStarts, first, offsets[0] ?? 0),
        without: nameClients(clients, (index) => feature.support[index] === 'n'),
        partly: nameClients(clients, (index) => feature.support[index] === 'a'),
        notes: feature.notes.map((text, note) => ({
          text,
          clients: nameClients(clients, (index) => feature.noted[index]?.includes(note) ?? false),
        })),
        unsupported: countLetters(feature, 'n'),
        supported: countLetters(feature, 'y'),
        known: clients.length - countLetters(feature, 'u'),
      },
    ]
  })
  return problems.toSorted((a, b) => b.unsupported - a.unsupported || a.supported - b.supported)
}

const countLetters = ({ support }: Feature, letter: string): number => support.split(letter).length - 1

/** The names of clients, or of their family if all of it are meant. */
function nameClients(clients: EmailSupport['clients'], isMeant: (index: number) => boolean): string[] {
  const families = Map.groupBy(clients.entries(), ([, { family }]) => family)
  return [...families].flatMap(([family, members]) => {
    const meant = members.filter(([index]) => isMeant(index))
    return meant.length === members.length ? [family] : meant.map(([, { name }]) => name)
  })
}

function findLineStarts(text: string): number[] {
  const starts = [0]
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return starts
}

/** The number of the line, from 1, that contains an offset. */
function findLine(lineStarts: readonly number[], offset: number): number {
  let low = 0
  let high = lineStarts.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((lineStarts[middle] ?? 0) <= offset) low = middle + 1
    else high = middle
  }
  return low
}

/** A long line is shortened around the use. */
function readExcerpt(html: string, lineStarts: readonly number[], line: number, offset: number): string {
  const start = lineStarts[line - 1] ?? 0
  const end = (lineStarts[line] ?? html.length + 1) - 1
  const from = offset - start > MAX_EXCERPT_LENGTH / 2 ? offset - 20 : start
  const text = html
    .slice(from, Math.min(end, from + MAX_EXCERPT_LENGTH))
    .trim()
    .toWellFormed()
  return `${from > start ? '…' : ''}${text}${from + MAX_EXCERPT_LENGTH < end ? '…' : ''}`
}
