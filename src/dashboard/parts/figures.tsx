/** @module Numbers beside each other, each with its name. */
import type { ReactNode } from 'react'
import type { Target } from './filters.ts'
import { TextLink } from './links.tsx'

export interface Figure {
  readonly label: string
  readonly value: number | string
  readonly note?: ReactNode
  /** From the period before to this one; whether more is good, if either is. */
  readonly change?: { readonly before: number; readonly now: number; readonly isGood?: boolean }
  /** The values of the period, oldest first. */
  readonly series?: readonly number[]
  /** The screen that has more about it. */
  readonly target?: Target
}

export const Figures = ({ figures }: { readonly figures: readonly Figure[] }) => (
  <dl className="figures">
    {figures.map(({ label, value, change, series, note, target }) => (
      <div key={label} className="figure">
        <dt className="figure-label">{target ? <TextLink {...target}>{label}</TextLink> : label}</dt>
        <dd className="figure-line">
          <span className="figure-value">{value.toLocaleString()}</span>
          {change !== undefined && <Change change={change} />}
          {series && <Sparkline series={series} />}
        </dd>
        {note !== undefined && <dd className="figure-note">{note}</dd>}
      </div>
    ))}
  </dl>
)

const PERCENT = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 0, signDisplay: 'exceptZero' })

/** Of fewer, a percentage says nothing. */
const MIN_COMPARED = 50

const Change = ({ change: { before, now, isGood } }: { readonly change: NonNullable<Figure['change']> }) => {
  if (before === now || before < MIN_COMPARED) return null
  const tone = isGood === undefined ? 'neutral' : now > before === isGood ? 'good' : 'bad'
  return (
    <span className={`figure-change tone-${tone}`} title={`${before.toLocaleString()} before`}>
      {PERCENT.format((now - before) / before)}
    </span>
  )
}

const WIDTH = 80
const HEIGHT = 24

/** A line of the values, from the lowest to the highest. */
export function Sparkline({ series }: { readonly series: readonly number[] }) {
  const max = Math.max(1, ...series)
  const step = WIDTH / Math.max(1, series.length - 1)
  const points = series.map(
    (value, index) => `${(index * step).toFixed(1)},${(HEIGHT - 2 - (value / max) * (HEIGHT - 4)).toFixed(1)}`,
  )
  return (
    <svg className="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <polyline points={points.join(' ')} />
    </svg>
  )
}
