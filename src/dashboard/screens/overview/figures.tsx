/** @module Counts of the last 24 hours beside those of the 24 hours before. */
import { Card, Text } from '@mantine/core'
import { Section } from '../../parts/section.tsx'
import { QueryView } from '../../parts/states.tsx'
import { useTimeseries } from './queries.ts'
import { type Counts, SHOWN_METRICS, type ShownMetric, sumHours } from './sum-hours.ts'

const LABELS: Readonly<Record<ShownMetric, string>> = {
  sent: 'Sent',
  delivered: 'Delivered',
  bounced: 'Bounced',
  opens: 'Opened',
  clicks: 'Clicked',
  complaints: 'Complaints',
}

const NUMBER = new Intl.NumberFormat(undefined)
const DAY_MS = 86_400_000

const toDay = (at: number): string => new Date(at).toISOString().slice(0, 10)

export function Figures() {
  const now = Date.now()
  const series = useTimeseries({
    // 48 hours begin two days ago.
    from: toDay(now - 2 * DAY_MS),
    to: toDay(now),
    interval: 'hour',
    metrics: SHOWN_METRICS.join(','),
  })
  return (
    <Section title="Last 24 hours">
      <QueryView query={series}>{({ data }) => <Grid {...sumHours(data)} />}</QueryView>
    </Section>
  )
}

const Grid = ({ now, before }: { readonly now: Counts; readonly before: Counts }) => (
  <div className="figures">
    {SHOWN_METRICS.map((metric) => (
      <Card key={metric} withBorder padding="sm">
        <Text size="sm">{LABELS[metric]}</Text>
        <Text size="xl" fw={700}>
          {NUMBER.format(now[metric])}
        </Text>
        <Text size="sm">{NUMBER.format(before[metric])} the day before</Text>
      </Card>
    ))}
  </div>
)
