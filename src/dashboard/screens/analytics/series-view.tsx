/** @module A time series: its chart, the choice of its lines, and the same numbers as a table. */
import { Checkbox, Group, Stack, Table, Text, useComputedColorScheme } from '@mantine/core'
import { lazy, Suspense, useMemo, useState } from 'react'
import type { AnalyticsTimeseries } from '#client/api.ts'
import { Copy } from '../../parts/copy.tsx'
import { EmptyState, LoadingState } from '../../parts/page.tsx'
import { type AnalyticsFilters, listMetrics, listShown, type Metric, toggleMetric, toLabel } from './filters.ts'
import { formatPoint, hasActivity, LINE_STYLES, toText } from './series.ts'

const Chart = lazy(() => import('./chart.tsx'))

interface SeriesProps {
  readonly points: readonly AnalyticsTimeseries[]
  readonly filters: AnalyticsFilters
  onChange(filters: AnalyticsFilters): void
}

export function Series({ points, filters, onChange }: SeriesProps) {
  // The chart is drawn again only when these change.
  const shown = useMemo(() => listShown(filters), [filters])
  const metrics = listMetrics(filters)
  if (!hasActivity(points, metrics))
    return (
      <EmptyState
        title="Nothing happened in this period"
        text="What is sent, delivered, bounced, opened and clicked will appear here. Mail that is only captured, such as that of unverified domains, is not counted."
      />
    )
  return (
    <Stack gap="sm">
      <Group gap="md" role="group" aria-label="Lines of the chart">
        {metrics.map((metric) => (
          <Checkbox
            key={metric}
            checked={shown.includes(metric)}
            onChange={() => onChange(toggleMetric(filters, metric))}
            label={
              <Group component="span" gap={6} wrap="nowrap">
                <Swatch metric={metric} />
                {toLabel(metric)}
              </Group>
            }
          />
        ))}
      </Group>
      {shown.length > 0 && (
        <Suspense fallback={<LoadingState rows={8} />}>
          <Chart points={points} metrics={shown} />
        </Suspense>
      )}
      <Text size="sm">
        {points[0]?.time === undefined ? 'Days are those of UTC.' : 'Hours are in your time zone.'}
        {filters.stream !== undefined && ' Of a stream, only hard bounces are counted.'}
      </Text>
      <Numbers points={points} metrics={metrics} />
    </Stack>
  )
}

/** The line of a metric as the chart draws it. */
function Swatch({ metric }: { readonly metric: Metric }) {
  const scheme = useComputedColorScheme('light')
  const { dash } = LINE_STYLES[metric]
  return (
    <svg width="36" height="10" aria-hidden="true" focusable="false">
      <line
        x1="0"
        x2="36"
        y1="5"
        y2="5"
        stroke={LINE_STYLES[metric][scheme]}
        strokeWidth="3"
        strokeDasharray={dash.join(' ')}
      />
    </svg>
  )
}

const NUMBER = new Intl.NumberFormat(undefined)

interface NumbersProps {
  readonly points: readonly AnalyticsTimeseries[]
  readonly metrics: readonly Metric[]
}

function Numbers({ points, metrics }: NumbersProps) {
  const [isOpen, setIsOpen] = useState(false)
  return (
    <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>The same numbers as a table</summary>
      {isOpen && (
        <Stack gap="xs" mt="xs" align="flex-start">
          <Copy value={toText(points, metrics)} what="the table" />
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: otherwise it cannot be scrolled by keyboard */}
          <section className="numbers" aria-label="Numbers of the chart" tabIndex={0}>
            <Table verticalSpacing={4} striped>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th scope="col">{points[0]?.time === undefined ? 'Day' : 'Hour'}</Table.Th>
                  {metrics.map((metric) => (
                    <Table.Th key={metric} scope="col" ta="right">
                      {toLabel(metric)}
                    </Table.Th>
                  ))}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {points.map((point) => (
                  <Table.Tr key={point.time ?? point.date}>
                    <Table.Th scope="row" fw={400}>
                      <time dateTime={point.time ?? point.date}>{formatPoint(point)}</time>
                    </Table.Th>
                    {metrics.map((metric) => (
                      <Table.Td key={metric} ta="right">
                        {NUMBER.format(point[metric] ?? 0)}
                      </Table.Td>
                    ))}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </section>
        </Stack>
      )}
    </details>
  )
}
