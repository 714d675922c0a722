/** @module A chart of numbers over time, as lines or as columns on each other. It is drawn in the width that it has. */
import { useElementSize } from '@mantine/hooks'
import { type PointerEvent, useState } from 'react'
import { type ChartPoint, type ChartSeries, listSteps } from './chart-scale.ts'

interface ChartProps {
  /** What it shows, for screen readers; the same numbers are elsewhere as text. */
  readonly label: string
  readonly points: readonly ChartPoint[]
  readonly series: readonly ChartSeries[]
  /** Whether there is a column for each point, in which the series are on each other. */
  readonly isStacked?: boolean
  readonly height?: number
}

const TOP = 8
const AXIS_WIDTH = 40
const AXIS_HEIGHT = 28
const LABEL_WIDTH = 96
/** Between texts on each other. */
const LINE_HEIGHT = 16
/** A chart that is narrower has no names at its lines. */
const MIN_LABELLED_WIDTH = 560
const TICK_WIDTH = 72
const MAX_COLUMN_WIDTH = 28
const TIP_WIDTH = 176
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact' })

export function Chart({ label, points, series, isStacked = false, height = 240 }: ChartProps) {
  const { ref, width } = useElementSize<HTMLDivElement>()
  const [index, setIndex] = useState<number>()
  const hasLabels = !isStacked && width >= MIN_LABELLED_WIDTH
  const right = width - (hasLabels ? LABEL_WIDTH : isStacked ? 0 : 4)
  const bottom = height - AXIS_HEIGHT
  const steps = listSteps(findMax(series, isStacked))
  const max = steps.at(-1) ?? 1
  const room = right - AXIS_WIDTH
  const toX = (at: number) =>
    isStacked
      ? AXIS_WIDTH + (room * (at + 0.5)) / points.length
      : AXIS_WIDTH + (points.length < 2 ? room / 2 : (room * at) / (points.length - 1))
  const toY = (value: number) => bottom - ((bottom - TOP) * value) / max
  const point = (event: PointerEvent) => {
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left - AXIS_WIDTH
    const at = isStacked ? Math.floor((x / room) * points.length) : Math.round((x / room) * (points.length - 1))
    setIndex(Math.min(points.length - 1, Math.max(0, at)))
  }
  return (
    <div
      ref={ref}
      className="chart"
      style={{ height }}
      onPointerMove={point}
      onPointerLeave={() => setIndex(undefined)}
    >
      {width > 0 && (
        <svg width={width} height={height} role="img" aria-label={label}>
          {steps.map((step) => (
            <g key={step}>
              <line className="chart-grid" x1={AXIS_WIDTH} x2={right} y1={toY(step)} y2={toY(step)} />
              <text x={AXIS_WIDTH - 8} y={toY(step) + 4} textAnchor="end">
                {COMPACT.format(step)}
              </text>
            </g>
          ))}
          {listTicks(points, room).map((at) => (
            <text key={at} x={toX(at)} y={height - 6} textAnchor={toAnchor(toX(at), width)}>
              {points[at]?.tick}
            </text>
          ))}
          {index !== undefined && (
            <line className="chart-cursor" x1={toX(index)} x2={toX(index)} y1={TOP} y2={bottom} />
          )}
          {isStacked ? (
            <Columns series={series} toX={toX} toY={toY} step={room / points.length} />
          ) : (
            series.map((line) => <Line key={line.look} line={line} toX={toX} toY={toY} bottom={bottom} at={index} />)
          )}
          {hasLabels &&
            placeLabels(series, toY, bottom).map(({ line, y }) => (
              <text key={line.look} className={`chart-name series series-${line.look}`} x={right + 8} y={y + 4}>
                {line.label}
              </text>
            ))}
        </svg>
      )}
      {index !== undefined && points[index] && (
        <div
          className="chart-tip"
          aria-hidden="true"
          style={{ left: Math.max(0, toX(index) + (toX(index) > width / 2 ? -TIP_WIDTH - 12 : 12)), width: TIP_WIDTH }}
        >
          <b>{points[index].name}</b>
          {series.map((line) => (
            <span key={line.look}>
              <Swatch look={line.look} isColumn={isStacked} />
              {line.label}
              <b>{(line.values[index] ?? 0).toLocaleString()}</b>
            </span>
          ))}
        </div>
      )}
    </div>
  )
}

interface ScaleProps {
  toX(index: number): number
  toY(value: number): number
}

interface LineProps extends ScaleProps {
  readonly line: ChartSeries
  readonly bottom: number
  readonly at: number | undefined
}

function Line({ line: { look, values }, toX, toY, bottom, at }: LineProps) {
  const path = values.map((value, index) => `${toX(index).toFixed(1)},${toY(value).toFixed(1)}`).join(' ')
  return (
    <g className={`series series-${look}`}>
      <polygon className="series-area" points={`${toX(0)},${bottom} ${path} ${toX(values.length - 1)},${bottom}`} />
      <polyline points={path} />
      {(values.length === 1 || at !== undefined) && <circle cx={toX(at ?? 0)} cy={toY(values[at ?? 0] ?? 0)} r="3.5" />}
    </g>
  )
}

function Columns({
  series,
  toX,
  toY,
  step,
}: ScaleProps & { readonly series: readonly ChartSeries[]; readonly step: number }) {
  const width = Math.max(1, Math.min(MAX_COLUMN_WIDTH, step * 0.7))
  const below = new Map<number, number>()
  return series.map(({ look, values }) => (
    <g key={look} className={`series series-${look}`}>
      {values.map((value, at) => {
        const from = below.get(at) ?? 0
        below.set(at, from + value)
        const x = toX(at)
        return (
          value > 0 && (
            <rect
              key={x}
              x={x - width / 2}
              width={width}
              y={toY(from + value)}
              height={toY(from) - toY(from + value)}
            />
          )
        )
      })}
    </g>
  ))
}

/** How a series is drawn, beside its name. */
export const Swatch = ({ look, isColumn = false }: { readonly look: string; readonly isColumn?: boolean }) => (
  <svg className={`swatch series series-${look}`} viewBox="0 0 20 12" aria-hidden="true" focusable="false">
    {isColumn ? (
      <rect x="4" width="12" height="12" rx="2" />
    ) : (
      <>
        <polygon className="series-area" points="0,6 20,6 20,12 0,12" />
        <polyline points="0,6 20,6" />
      </>
    )}
  </svg>
)

const findMax = (series: readonly ChartSeries[], isStacked: boolean): number => {
  const lengths = series.map(({ values }) => values.length)
  if (!isStacked) return Math.max(0, ...series.flatMap(({ values }) => values))
  const sumAt = (at: number) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0)
  return Math.max(0, ...Array.from({ length: Math.max(0, ...lengths) }, (_, at) => sumAt(at)))
}

/** The points whose time is shown, so far apart that all have room. */
function listTicks(points: readonly ChartPoint[], room: number): number[] {
  const all = points.flatMap(({ tick }, at) => (tick === undefined ? [] : [at]))
  const distance = (room / points.length) * (points.length / Math.max(1, all.length))
  const every = Math.max(1, Math.ceil(TICK_WIDTH / distance))
  return all.filter((_, at) => at % every === 0)
}

/** So that nothing is cut at the sides. */
const toAnchor = (x: number, width: number): 'start' | 'middle' | 'end' =>
  x < AXIS_WIDTH + 1 ? 'start' : x > width - TICK_WIDTH / 3 ? 'end' : 'middle'

/** The heights of the names beside the ends of the lines, none over another. */
function placeLabels(series: readonly ChartSeries[], toY: (value: number) => number, bottom: number) {
  const ends = series
    .toReversed()
    .map((line) => ({ line, y: toY(line.values.at(-1) ?? 0) }))
    .toSorted((one, other) => other.y - one.y)
  let free = bottom
  return ends.map(({ line, y }) => {
    const placed = Math.min(y, free)
    free = placed - LINE_HEIGHT
    return { line, y: placed }
  })
}
