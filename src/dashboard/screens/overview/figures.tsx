/** @module Counts of today beside yesterday. */
import { Card, Stack, Text, Title } from '@mantine/core'
import type { TimePoint } from '#features/reporting/analytics/model.ts'
import { QueryView } from '../../parts/states.tsx'
import { useTimeseries } from './queries.ts'

const FIGURES = [
  ['sent', 'Sent'],
  ['delivered', 'Delivered'],
  ['bounced', 'Bounced'],
  ['opens', 'Opened'],
  ['clicks', 'Clicked'],
] as const

const NUMBER = new Intl.NumberFormat(undefined)
const DAY_MS = 86_400_000

const toDay = (at: number): string => new Date(at).toISOString().slice(0, 10)

export function Figures() {
  const now = Date.now()
  const series = useTimeseries({ from: toDay(now - DAY_MS), to: toDay(now) })
  return (
    <Stack component="section" gap="sm" aria-labelledby="figures">
      <Title order={2} size="h4" id="figures">
        Today and yesterday (UTC)
      </Title>
      <QueryView query={series}>{({ data }) => <Grid before={data.at(-2)} now={data.at(-1)} />}</QueryView>
    </Stack>
  )
}

interface GridProps {
  readonly before: TimePoint | undefined
  readonly now: TimePoint | undefined
}

const Grid = ({ before, now }: GridProps) => (
  <div className="figures">
    {FIGURES.map(([metric, label]) => (
      <Card key={metric} withBorder padding="sm">
        <Text size="sm">{label}</Text>
        <Text size="xl" fw={700}>
          {NUMBER.format(now?.[metric] ?? 0)}
        </Text>
        <Text size="sm">{NUMBER.format(before?.[metric] ?? 0)} yesterday</Text>
      </Card>
    ))}
  </div>
)
