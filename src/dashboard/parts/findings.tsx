/** @module What a check or a report found: in words, how bad it is, what it is known by and what to do. */
import type { ReactNode } from 'react'
import { StateLabel } from './status.tsx'
import type { State } from './tone.ts'

const PROBLEM: State = { word: 'Problem', tone: 'bad' }
const WARNING: State = { word: 'Warning', tone: 'warning' }

/** By the names that the API has for it. */
export const SEVERITIES = {
  critical: { word: 'Critical', tone: 'bad' },
  bad: PROBLEM,
  problem: PROBLEM,
  warn: WARNING,
  warning: WARNING,
  info: { word: 'Note', tone: 'neutral' },
  good: { word: 'Good', tone: 'good' },
} as const satisfies Readonly<Record<string, State>>

export interface Finding {
  readonly key: string
  readonly state: State
  readonly text: ReactNode
  /** By what it is known, or where it is. */
  readonly note?: ReactNode
  /** What to do. */
  readonly advice?: ReactNode
}

export const Findings = ({ label, findings }: { readonly label: string; readonly findings: readonly Finding[] }) => (
  <ul className="rows" aria-label={label}>
    {findings.map(({ key, state, text, note, advice }) => (
      <li key={key} data-finding={key}>
        <div>{text}</div>
        <div className="row-aside">
          <StateLabel state={state} />
        </div>
        {note && <div className="cell-note">{note}</div>}
        {advice && <div className="row-advice">{advice}</div>}
      </li>
    ))}
  </ul>
)
