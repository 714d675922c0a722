/** @module What receivers report about a domain: sentences first, then days, sources and TLS sessions. */
import { Group, List, Stack, Text } from '@mantine/core'
import type { Domain, DomainReport } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { Chart, Swatch } from '../../parts/chart.tsx'
import { Figures } from '../../parts/figures.tsx'
import { formatDay } from '../../parts/format.ts'
import { EmptyState, QueryView, Section } from '../../parts/page.tsx'
import { StateLabel, StatusLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import type { State, Tone } from '../../parts/tone.ts'

type Source = DomainReport['sources'][number]

const TONES: Readonly<Record<DomainReport['findings'][number]['level'], State>> = {
  bad: { tone: 'bad', word: 'Problem' },
  warning: { tone: 'warning', word: 'Look at this' },
  info: { tone: 'neutral', word: 'Note' },
  good: { tone: 'good', word: 'Good' },
}

const CLASSES: Readonly<Record<Source['class'], State>> = {
  aligned: { tone: 'good', word: 'Ours, passes' },
  broken: { tone: 'bad', word: 'Ours, fails' },
  other: { tone: 'good', word: 'Elsewhere, passes' },
  service: { tone: 'warning', word: 'Service, fails' },
  foreign: { tone: 'bad', word: 'Foreign, fails' },
}

/** Lines of the chart, with the looks of analytics. */
const SERIES = [
  { look: 'delivered', label: 'Passes', classes: ['aligned', 'other'] },
  { look: 'bounced', label: 'Ours or a service, fails', classes: ['broken', 'service'] },
  { look: 'complaints', label: 'Foreign, fails', classes: ['foreign'] },
] as const

const COLUMNS: readonly Column<Source>[] = [
  {
    header: 'Source',
    width: '22%',
    isWrapped: true,
    cell: ({ class: kind, name, sender }) => (
      <>
        {name || 'Several addresses'}
        {kind === 'foreign' && sender && (
          <Text size="xs" c="dimmed">
            {sender}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Meaning', isWrapped: true, phone: 'bare', cell: ({ text }) => text },
  { header: 'Status', width: '10rem', phone: 'aside', cell: (row) => <StateLabel state={CLASSES[row.class]} /> },
  { header: 'Messages', width: '6rem', isNumeric: true, cell: ({ count }) => count.toLocaleString() },
  {
    header: 'Stopped',
    width: '8rem',
    isNumeric: true,
    cell: ({ rejected }) => rejected.toLocaleString(),
  },
]

const TLS_COLUMNS: readonly Column<DomainReport['tls']['failures'][number]>[] = [
  { header: 'Cause', width: '22%', cell: ({ cause }) => cause },
  { header: 'Meaning', isWrapped: true, phone: 'bare', cell: ({ text }) => text },
  { header: 'Sessions', width: '6rem', isNumeric: true, cell: ({ count }) => count.toLocaleString() },
]

export function DomainReports({ domain }: { readonly domain: Domain }) {
  const query = useData(read.domains.getReport(domain.id))
  return (
    <Section
      title="Reports"
      id="reports"
      description="What receivers report of the last 30 days about mail in the name of this domain."
    >
      <QueryView query={query}>{(report) => <Report report={report} />}</QueryView>
    </Section>
  )
}

function Report({ report }: { readonly report: DomainReport }) {
  const { totals, tls, findings, advice, sources, series } = report
  const passed = totals.aligned + totals.other
  const failed = totals.broken + totals.service + totals.foreign
  if (passed + failed + tls.ok + tls.failed === 0)
    return (
      <EmptyState title="No reports yet" text="Receivers send them a day later, once the DMARC record asks for them." />
    )
  const adviceTone: Tone = advice.is_safe ? 'good' : 'waiting'
  return (
    <Stack gap="md">
      <List listStyleType="none" size="sm" spacing="xs">
        <List.Item>
          <StatusLabel tone={adviceTone}>{advice.text}</StatusLabel>
        </List.Item>
        {findings.map(
          ({ key, level, text }) =>
            key !== 'advice' && (
              <List.Item key={key} data-finding={key}>
                <StatusLabel tone={TONES[level].tone} title={TONES[level].word}>
                  {text}
                </StatusLabel>
              </List.Item>
            ),
        )}
      </List>
      <Figures
        figures={[
          { label: 'Pass DMARC', value: passed },
          { label: 'Fail DMARC', value: failed },
          { label: 'TLS sessions', value: tls.ok + tls.failed, note: `${tls.failed.toLocaleString()} failed` },
          { label: 'Policy', value: `p=${report.policy['p'] ?? 'unknown'}` },
        ]}
      />
      {passed + failed > 0 && (
        <>
          <Group gap="md">
            {SERIES.map(({ look, label }) => (
              <span key={look}>
                <Swatch look={look} isColumn /> {label}
              </span>
            ))}
          </Group>
          <Chart
            label="Messages by day; the table below has their sources."
            isStacked
            height={180}
            points={series.map(({ day }) => toPoint(day))}
            series={SERIES.map(({ look, label, classes }) => ({
              look,
              label,
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
        </>
      )}
      {tls.failures.length > 0 && (
        <DataTable label="Failed TLS sessions" columns={TLS_COLUMNS} rows={tls.failures} toKey={({ cause }) => cause} />
      )}
    </Stack>
  )
}

function toPoint(day: string) {
  const name = formatDay(new Date(`${day}T12:00:00Z`))
  return { name, tick: name }
}
