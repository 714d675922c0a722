/** @module What receivers report about a domain: sentences first, then days and sources. */
import type { DomainReport } from '#client/api.ts'
import { Chart, Swatch } from '../../parts/chart.tsx'
import { Figures } from '../../parts/figures.tsx'
import { Findings, SEVERITIES } from '../../parts/findings.tsx'
import { formatDay } from '../../parts/format.ts'
import { EmptyState, Section } from '../../parts/page.tsx'
import { StateLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import type { State } from '../../parts/tone.ts'

type Source = DomainReport['sources'][number]

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
  { header: 'Source', width: '22%', isWrapped: true, cell: ({ name }) => <bdi>{name || 'Several addresses'}</bdi> },
  { header: 'Meaning', isWrapped: true, phone: 'bare', cell: ({ text }) => text },
  { header: 'Status', width: '10rem', phone: 'aside', cell: (row) => <StateLabel state={CLASSES[row.class]} /> },
  { header: 'Messages', width: '6rem', isNumeric: true, cell: ({ count }) => count.toLocaleString() },
  { header: 'Stopped', width: '6rem', isNumeric: true, cell: ({ rejected }) => rejected.toLocaleString() },
]

export function DomainReports({ report }: { readonly report: DomainReport }) {
  const { totals, tls, findings, advice, sources, series, policy } = report
  const passed = totals.aligned + totals.other
  const failed = totals.broken + totals.service + totals.foreign
  const points = series.map(({ day }) => formatDay(new Date(`${day}T12:00:00Z`)))
  if (series.length === 0)
    return <EmptyState title="No reports yet" text="They come a day later, once the DMARC record asks for them." />
  return (
    <Section title="The last 30 days" description="What receivers reported about mail as this domain.">
      <Findings
        label="Findings"
        findings={findings.map(({ key, level, text }) => ({
          key,
          text,
          state: SEVERITIES[key === 'advice' && advice.is_safe ? 'good' : level],
        }))}
      />
      <Figures
        figures={[
          { label: 'Pass DMARC', value: passed },
          { label: 'Fail DMARC', value: failed },
          { label: 'TLS sessions', value: tls.ok + tls.failed, note: `${tls.failed.toLocaleString()} failed` },
          { label: 'Policy', value: policy['p'] ?? 'Unknown' },
        ]}
      />
      {sources.length > 0 && (
        <>
          <div className="chips">
            {SERIES.map(({ look, label }) => (
              <span key={look}>
                <Swatch look={look} isColumn /> {label}
              </span>
            ))}
          </div>
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
        </>
      )}
    </Section>
  )
}
