/** @module The table at the end of the cluster test: what each kind of rounds has shown. */
import type { Kind } from './rounds.ts'

/** The sums of one kind of rounds. */
export interface Tally {
  rounds: number
  accepted: number
  received: number
  lost: number
  doubled: number
  uncertain: number
  checkFailures: number
  pageDifferences: number
  otherViolations: number
  readonly outagesMs: number[]
}

export const createTally = (): Tally => ({
  rounds: 0,
  accepted: 0,
  received: 0,
  lost: 0,
  doubled: 0,
  uncertain: 0,
  checkFailures: 0,
  pageDifferences: 0,
  otherViolations: 0,
  outagesMs: [],
})

export function printTable(tallies: ReadonlyMap<Kind, Tally>): void {
  const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
  const seconds = (value: number | undefined) => (value === undefined ? '' : (value / 1000).toFixed(2))
  const columns: readonly (readonly [string, (tally: Tally) => string | number])[] = [
    ['rounds', (tally) => tally.rounds],
    ['202s', (tally) => tally.accepted],
    ['250s', (tally) => tally.received],
    ['lost', (tally) => tally.lost],
    ['doubled', (tally) => tally.doubled],
    ['uncertain', (tally) => tally.uncertain],
    ['check failures', (tally) => tally.checkFailures],
    ['page differences', (tally) => tally.pageDifferences],
    ['violations', (tally) => tally.otherViolations],
    ['failover median s', (tally) => seconds(median(tally.outagesMs))],
    ['worst s', (tally) => seconds(tally.outagesMs.length > 0 ? Math.max(...tally.outagesMs) : undefined)],
  ]
  const sum = [...tallies.values()].reduce((all, tally) => {
    for (const name of Object.keys(all) as (keyof Tally)[]) {
      if (name !== 'outagesMs') all[name] += tally[name]
    }
    if (tally.outagesMs.length > 0) all.outagesMs.push(...tally.outagesMs)
    return all
  }, createTally())
  const lines = [
    ['kind', ...columns.map(([name]) => name)],
    ...[...tallies, ['all', sum] as const].map(([kind, tally]) => [
      kind,
      ...columns.map(([, read]) => String(read(tally))),
    ]),
  ]
  const widths = [9, ...columns.map(([name]) => name.length)]
  for (const line of lines)
    console.log(line.map((cell, i) => (i === 0 ? cell.padEnd(9) : cell.padStart(widths[i] ?? 0))).join('  '))
}
