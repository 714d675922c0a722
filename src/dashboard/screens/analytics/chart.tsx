/** @module The chart of a time series: lines with dashes of their own, and the values under the cursor. */
import 'uplot/dist/uPlot.min.css'
import { Text, useComputedColorScheme } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import uPlot from 'uplot'
import type { AnalyticsTimeseries } from '#client/api.ts'
import { type Metric, toLabel } from './filters.ts'
import { formatPoint, LINE_STYLES, toSeconds, toValues } from './series.ts'

interface ChartProps {
  readonly points: readonly AnalyticsTimeseries[]
  readonly metrics: readonly Metric[]
}

const HEIGHT = 320
const AXIS_WIDTH = 60
/** The least room for a time below the chart. */
const TIME_WIDTH = 70
/** Single values are marked while they are far enough apart. */
const MAX_MARKED_POINTS = 62
const NUMBER = new Intl.NumberFormat(undefined)
const COMPACT = new Intl.NumberFormat(undefined, { notation: 'compact' })

const COLOURS = {
  light: { text: '#212529', grid: '#dee2e6' },
  dark: { text: '#dee2e6', grid: '#424242' },
} as const

export default function Chart({ points, metrics }: ChartProps) {
  const holder = useRef<HTMLDivElement>(null)
  const [index, setIndex] = useState<number>()
  const scheme = useComputedColorScheme('light')
  useEffect(() => {
    const element = holder.current
    if (!element) return
    const data: uPlot.AlignedData = [toSeconds(points), ...metrics.map((metric) => toValues(points, metric))]
    const chart = new uPlot(
      toOptions({ points, metrics, scheme, width: element.clientWidth, onIndex: setIndex }),
      data,
      element,
    )
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      chart.destroy()
    }
  }, [points, metrics, scheme])
  const point = index === undefined ? undefined : points[index]
  return (
    <div>
      {/* Two lines are kept free, so that nothing moves under the cursor. */}
      <Text size="sm" mih="3em" aria-hidden="true">
        {point
          ? `${formatPoint(point)}: ${metrics.map((metric) => `${toLabel(metric)} ${NUMBER.format(point[metric] ?? 0)}`).join(', ')}`
          : 'Point at the chart to read its values; the table below has all of them.'}
      </Text>
      <div
        ref={holder}
        role="img"
        aria-label={`Chart of ${metrics.map(toLabel).join(', ')}; the table below has the same numbers.`}
        style={{ height: HEIGHT, minWidth: 0, overflow: 'hidden' }}
      />
    </div>
  )
}

interface ChartOptions extends ChartProps {
  readonly scheme: 'light' | 'dark'
  readonly width: number
  onIndex(index: number | undefined): void
}

const DAY_UTC = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', timeZone: 'UTC' })
const DAY = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' })
const HOUR = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })

const formatDay = (at: number): string => DAY_UTC.format(new Date(at * 1000))

/** The date at midnight, otherwise the time. */
function formatHour(at: number): string {
  const time = new Date(at * 1000)
  return time.getHours() === 0 ? DAY.format(time) : HOUR.format(time)
}

function toOptions({ points, metrics, scheme, width, onIndex }: ChartOptions): uPlot.Options {
  const { text, grid } = COLOURS[scheme]
  const isDaily = points[0]?.time === undefined
  const font = '12px system-ui, sans-serif'
  const formatTime = isDaily ? formatDay : formatHour
  const axis = { stroke: text, font, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } }
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    // Days are those of UTC, hours those of the reader.
    ...(isDaily && { tzDate: (at: number) => uPlot.tzDate(new Date(at * 1000), 'Etc/UTC') }),
    scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.05)] } },
    axes: [
      { ...axis, space: TIME_WIDTH, values: (_, splits) => splits.map(formatTime) },
      {
        ...axis,
        size: AXIS_WIDTH,
        values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? COMPACT.format(value) : '')),
      },
    ],
    series: [
      {},
      ...metrics.map((metric) => ({
        label: toLabel(metric),
        stroke: LINE_STYLES[metric][scheme],
        width: 2,
        dash: [...LINE_STYLES[metric].dash],
        points: { show: points.length <= MAX_MARKED_POINTS, size: 5 },
      })),
    ],
    hooks: { setCursor: [({ cursor }) => onIndex(cursor.idx ?? undefined)] },
  }
}
