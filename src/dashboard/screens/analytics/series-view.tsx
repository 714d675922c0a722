/** @module A time series: its chart, the choice of its lines, and the same numbers as a table. */
import { useState } from 'react'
import type { AnalyticsTimeseries } from '#client/api.ts'
import { Chart, Swatch } from '../../parts/chart.tsx'
import { EmptyState } from '../../parts/page.tsx'
import { useZone } from '../../parts/zone.ts'
import { type AnalyticsFilters, DEFAULT_METRICS, listMetrics, type Metric, toLabel } from './filters.ts'
import { formatPoint, hasActivity, toPoints, toSeries } from './series.ts'

interface SeriesProps {
  readonly points: readonly AnalyticsTimeseries[]
  readonly filters: AnalyticsFilters
}

export function Series({ points, filters }: SeriesProps) {
  useZone()
  const [chosen, setChosen] = useState(DEFAULT_METRICS)
  const metrics = listMetrics(filters)
  const shown = metrics.filter((metric) => chosen.includes(metric))
  if (!hasActivity(points, metrics))
    return (
      <EmptyState
        title="Nothing happened in this period"
        text="What is sent, delivered, bounced, opened and clicked appears here. Captured mail is not counted."
      />
    )
  return (
    <>
      <fieldset className="legend">
        <legend className="visually-hidden">Lines of the chart</legend>
        {metrics.map((metric) => (
          <label key={metric}>
            <input
              type="checkbox"
              className="visually-hidden"
              checked={shown.includes(metric)}
              onChange={() =>
                setChosen(chosen.includes(metric) ? chosen.filter((one) => one !== metric) : [...chosen, metric])
              }
            />
            <Swatch look={metric} />
            {toLabel(metric)}
          </label>
        ))}
      </fieldset>
      <Chart
        label={`Chart of ${shown.map(toLabel).join(', ')}; the table below has the same numbers.`}
        points={toPoints(points)}
        series={toSeries(points, shown)}
      />
      <Numbers points={points} metrics={metrics} />
    </>
  )
}

interface NumbersProps {
  readonly points: readonly AnalyticsTimeseries[]
  readonly metrics: readonly Metric[]
}

function Numbers({ points, metrics }: NumbersProps) {
  const [isOpen, setIsOpen] = useState(false)
  const total = (metric: Metric) => points.reduce((sum, point) => sum + (point[metric] ?? 0), 0)
  return (
    <details className="fold" onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>The same numbers as a table</summary>
      {isOpen && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: otherwise it cannot be scrolled by keyboard
        <section className="numbers" aria-label="Numbers of the chart" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">{points[0]?.time === undefined ? 'Day' : 'Hour'}</th>
                {metrics.map((metric) => (
                  <th key={metric} scope="col">
                    {toLabel(metric)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {points.map((point) => (
                <tr key={point.time ?? point.date}>
                  <th scope="row">
                    <time dateTime={point.time ?? point.date}>{formatPoint(point)}</time>
                  </th>
                  {metrics.map((metric) => (
                    <td key={metric}>{(point[metric] ?? 0).toLocaleString()}</td>
                  ))}
                </tr>
              ))}
            </tbody>
            <tfoot>
              <tr>
                <th scope="row">Total</th>
                {metrics.map((metric) => (
                  <td key={metric}>{total(metric).toLocaleString()}</td>
                ))}
              </tr>
            </tfoot>
          </table>
        </section>
      )}
    </details>
  )
}
