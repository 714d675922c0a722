/** @module The choice of period, interval and stream. */
import { Button, Group, NativeSelect, TextInput } from '@mantine/core'
import { useState } from 'react'
import { bindText, Form } from '../../parts/form.tsx'
import { type AnalyticsFilters, PERIODS, parseAnalyticsFilters, toPeriodQuery } from './filters.ts'
import { useStreams } from './queries.ts'

interface FilterFormProps {
  readonly filters: AnalyticsFilters
  onChange(filters: AnalyticsFilters): void
}

const CUSTOM = 'custom'
/** The longest period by hour. */
const HOURLY_PERIOD = '7d'
const PERIOD_LABELS: Readonly<Record<string, string>> = {
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
}

export function FilterForm({ filters, onChange }: FilterFormProps) {
  const [isChoosing, setIsChoosing] = useState(false)
  const isCustom = isChoosing || filters.from !== undefined
  const streams = useStreams().data?.data ?? []
  const { interval, stream } = filters
  const changePeriod = (value: string) => {
    setIsChoosing(value === CUSTOM)
    const { from: _, to: __, interval: ___, ...rest } = filters
    if (value !== CUSTOM)
      onChange(
        parseAnalyticsFilters({ ...rest, period: value, ...(value === HOURLY_PERIOD && interval && { interval }) }),
      )
  }
  const changeInterval = (value: string) => {
    const isTooLong = value === 'hour' && filters.from === undefined
    onChange(parseAnalyticsFilters({ ...filters, interval: value, ...(isTooLong && { period: HOURLY_PERIOD }) }))
  }
  const slugs = streams.map(({ slug }) => slug)
  return (
    <Group align="flex-end" gap="xs" role="group" aria-label="Filters">
      <NativeSelect
        label="Period"
        {...bindText(isCustom ? CUSTOM : String(toPeriodQuery(filters)['period'] ?? ''), changePeriod)}
        data={[
          ...PERIODS.map((value) => ({ value, label: PERIOD_LABELS[value] ?? value })),
          { value: CUSTOM, label: 'Other days …' },
        ]}
      />
      {isCustom && <CustomPeriod key={`${filters.from} ${filters.to}`} filters={filters} onChange={onChange} />}
      <NativeSelect
        label="Interval"
        {...bindText(interval ?? 'day', changeInterval)}
        data={[
          { value: 'day', label: 'Days' },
          { value: 'hour', label: 'Hours (of 7 days at most)' },
        ]}
      />
      <NativeSelect
        label="Stream"
        {...bindText(stream ?? '', (value) => onChange(parseAnalyticsFilters({ ...filters, stream: value })))}
        data={[
          { value: '', label: 'All mail' },
          ...(stream !== undefined && !slugs.includes(stream) ? [stream] : []),
          ...slugs,
        ]}
      />
    </Group>
  )
}

function CustomPeriod({ filters, onChange }: FilterFormProps) {
  const [from, setFrom] = useState(filters.from ?? '')
  const [to, setTo] = useState(filters.to ?? '')
  const submit = () => onChange(parseAnalyticsFilters({ ...filters, from, to }))
  return (
    <Form isRow onSubmit={submit}>
      <TextInput label="First day" type="date" w="100%" maw="12rem" {...bindText(from, setFrom)} />
      <TextInput label="Last day" type="date" w="100%" maw="12rem" {...bindText(to, setTo)} />
      <Button type="submit" disabled={from === '' || to === ''}>
        Show
      </Button>
    </Form>
  )
}
