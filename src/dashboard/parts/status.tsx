/**
 * @module States by word, shape and colour: readable without seeing colours; and notices: what is wrong or worth knowing
 * here, and what to do about it.
 */

import type { ReactNode } from 'react'
import { type State, type Tone, toStatusWord, toTone } from './tone.ts'

/** Outlines in a square of 16 units. */
const SHAPES: Readonly<Record<Tone, ReactNode>> = {
  good: <path d="M2.5 8.5l3.5 3.5 7.5-8" />,
  bad: <path d="M3.5 3.5l9 9m0-9l-9 9" />,
  warning: <path d="M8 2L14.5 13.5h-13zM8 6.5v3m0 2v.01" />,
  waiting: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.5V8l2.5 1.5" />
    </>
  ),
  active: <path d="M2 8h11M9 3.5L13.5 8 9 12.5" />,
  neutral: <path d="M3 8h10" />,
}

interface StatusLabelProps {
  readonly tone: Tone
  readonly children: ReactNode
  /** Explanation in the tooltip. */
  readonly title?: string | undefined
}

/** The shape alone, where words beside it say the same. */
const ToneShape = ({ tone }: { readonly tone: Tone }) => (
  <svg className={`tone-shape tone-${tone}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    {SHAPES[tone]}
  </svg>
)

/** A word with the shape and colour of its tone. */
export const StatusLabel = ({ tone, children, title }: StatusLabelProps) => (
  <span className="status" title={title}>
    <ToneShape tone={tone} />
    <span>{children}</span>
  </span>
)

export const StateLabel = ({ state: { word, tone, title } }: { readonly state: State }) => (
  <StatusLabel tone={tone} title={title}>
    {word}
  </StatusLabel>
)

/** The badge of a status or event type. */
export const StatusBadge = ({ status }: { readonly status: string }) => (
  <StatusLabel tone={toTone(status)}>{toStatusWord(status)}</StatusLabel>
)

/** The badge of a type of event: `sent` comes with every `delivered`, while the status `sent` is shown as delivered. */
export const EventBadge = ({ type }: { readonly type: string }) =>
  type === 'sent' ? <StatusLabel tone="good">Sent</StatusLabel> : <StatusBadge status={type} />

interface NoticeProps {
  readonly tone?: Tone
  readonly title?: ReactNode
  /** Whether it is read out when it appears. */
  readonly isUrgent?: boolean
  /** What can be done, at its end. */
  readonly action?: ReactNode
  readonly children?: ReactNode
}

export const Notice = ({ tone = 'neutral', title, isUrgent = false, action, children }: NoticeProps) => (
  <div
    className={`notice notice-${tone}`}
    role={isUrgent ? 'alert' : 'group'}
    {...(typeof title === 'string' && { 'aria-label': title })}
  >
    <ToneShape tone={tone} />
    <div className="notice-text">
      {title !== undefined && <strong>{title}</strong>}
      {children !== undefined && <div>{children}</div>}
    </div>
    {action !== undefined && <div className="notice-action">{action}</div>}
  </div>
)
