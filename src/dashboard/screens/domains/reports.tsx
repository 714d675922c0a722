/** @module What receivers report about a domain: sentences first, then days and sources. */
import { Stack, Text } from '@mantine/core'
import type { Domain, DomainReport } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { Chart } from '../../parts/chart.tsx'
import { Figures } from '../../parts/figures.tsx'
import { formatDay } from '../../parts/format.ts'
import { EmptyState, QueryView, Section } from '../../parts/page.tsx'
import { StateLabel, StatusLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import type { State, Tone } from '../../parts/tone.ts'

type Source = DomainReport['sources'][number]

const TONES = { bad: 'bad', warning: 'warning', info: 'neutral', good: 'good' } as const satisfies Record<string, Tone>

const CLASSES: Readonly<Record<Source['class'], State>> = {
  aligned: { tone: 'good', word: 'Ours, passes' },
  broken: { tone: 'bad', word: 'Ours, fails' },
  other: { tone: 'good', word: 'Elsewhere, passes' },
  service: { tone: 'warning', word: 'Service, fails' },
  foreign: { tone: 'bad', word: 'Foreign, fails' },
}

/** Columns of the chart, with the looks of analytics. */
const SERIES = [
  { look: 'delivered', label: 'Passes', classes: ['aligned', 'other'] },
  { look: 'bounced', label: 'Ours or service, fails', classes: ['broken', 'service'] },
  { look: 'complaints', label: 'Foreign, fails', classes: ['foreign'] },
] as const

const COLUMNS: readonly Column<Source>[] = [
  { header: 'Source', width: '22%', isWrapped: true, cell: ({ name }) => name || 'Several addresses' },
  { header: 'Meaning', isWrapped: true, phone: 'bare', cell: ({ text }) => text },
  { header: 'Status', width: '10rem', phone: 'aside', cell: (row) => <StateLabel state={CLASSES[row.class]} /> },
  { header: 'Messages', width: '6rem', isNumeric: true, cell: ({ count }) => count.toLocaleString() },
  { header: 'Stopped', width: '6rem', isNumeric: true, cell: ({ rejected }) => rejected.toLocaleString() },
]

export function DomainReports({ domain }: { readonly domain: Domain }) {
  const query = useData(read.domains.getReport(domain.id))
  return (
    <Section title="Reports" description="What receivers reported in the last 30 days about mail as this domain.">
      <QueryView query={query}>{(report) => <Report report={report} />}</QueryView>
    </Section>
  )
}

function Report({ report: { totals, tls, findings, advice, sources, series, policy } }: { report: DomainReport }) {
  const passed = totals.aligned + totals.other
  const failed = totals.broken + totals.service + totals.foreign
  if (series.length === 0)
    return <EmptyState title="No reports yet" text="They come a day later, once the DMARC record asks for them." />
  const toTone = ({ key, level }: DomainReport['findings'][number]): Tone =>
    key !== 'advice' ? TONES[level] : advice.is_safe ? 'good' : 'waiting'
  const points = series.map(({ day }) => formatDay(new Date(`${day}T12:00:00Z`)))
  return (
    <Stack gap="md">
      {findings.map((finding) => (
        <Text key={finding.key} component="div" size="sm" data-finding={finding.key}>
          <StatusLabel tone={toTone(finding)}>{finding.text}</StatusLabel>
        </Text>
      ))}
      <Figures
        figures={[
          { label: 'Pass DMARC', value: passed },
          { label: 'Fail DMARC', value: failed },
          { label: 'TLS sessions', value: tls.ok + tls.failed, note: `${tls.failed.toLocaleString()} failed` },
          { label: 'Policy', value: `p=${policy['p'] ?? 'unknown'}` },
        ]}
      />
      <Chart
        label="Messages by day; the table below has their sources."
        isStacked
        height={180}
        points={points.map((name) => ({ name, tick: name }))}
        series={SERIES.map(({ classes, ...line }) => ({
          ...line,
          values: series.map((day) => classes.reduce((sum, name) => sum + day[name], 0)),
        }))}
      />
      <DataTable
        label="Sources of mail"
        columns={COLUMNS}
        rows={sources}
        isWide
        toKey={({ class: kind, cause, name }) => `${kind} ${cause} ${name}`}
      />
    </Stack>
  )
}
