/**
 * @module What receivers report about a domain: sentences first, then days and sources; and what they demand of senders, and
 * how this domain does: a page that can be printed.
 */

import { Anchor, Group, Text } from '@mantine/core'
import type { DomainReport, DomainRules, SenderRule } from '#client/api.ts'
import { SmallAction } from '../../parts/buttons.tsx'
import { Chart, Swatch } from '../../parts/chart.tsx'
import { CopyText } from '../../parts/copy.tsx'
import { Figures } from '../../parts/figures.tsx'
import { type Finding, Findings, SEVERITIES } from '../../parts/findings.tsx'
import { formatDay } from '../../parts/format.ts'
import { EmptyState, Section } from '../../parts/page.tsx'
import { StateLabel } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
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
  column('Source', { width: '22%', isWrapped: true }, ({ name }) => <bdi>{name || 'Several addresses'}</bdi>),
  column('Meaning', { isWrapped: true, phone: 'bare' }, ({ text }) => text),
  column('Status', { width: '10rem', phone: 'aside' }, (row) => <StateLabel state={CLASSES[row.class]} />),
  column('Messages', { width: '6rem', isNumeric: true }, ({ count }) => count.toLocaleString()),
  column('Stopped', { width: '6rem', isNumeric: true }, ({ rejected }) => rejected.toLocaleString()),
]

export function DomainReports({ report }: { readonly report: DomainReport }) {
  const { totals, tls, findings, advice, sources, series, policy } = report
  const passed = totals.aligned + totals.other
  const failed = totals.broken + totals.service + totals.foreign
  const points = series.map(({ day }) => formatDay(new Date(`${day}T12:00:00Z`)))
  if (series.length === 0) return <EmptyState title="No reports yet" text={findings[0]?.text ?? ''} />
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

type RuleState = SenderRule['state']

/** In this order: what needs work, what is met, what nobody can tell yet. */
const STATES: Readonly<Record<RuleState, State>> = {
  broken: { tone: 'bad', word: 'Broken' },
  at_risk: { tone: 'warning', word: 'At risk' },
  met: { tone: 'good', word: 'Met' },
  unknown: { tone: 'neutral', word: 'Unknown' },
  not_applicable: { tone: 'neutral', word: 'Not applicable' },
}
const ORDER = Object.keys(STATES) as RuleState[]

export const SenderRules = ({ rules }: { readonly rules: DomainRules }) => (
  <Section
    title="Sender rules"
    description={rules.summary}
    action={<SmallAction onClick={() => window.print()}>Print</SmallAction>}
  >
    <Findings label="What needs work" findings={listUrgent(rules)} />
    <div>
      {rules.receivers.map((receiver) => (
        <details key={receiver.id} className="sender-rules" data-receiver={receiver.id}>
          <summary>
            <strong>{receiver.name}</strong>
            {ORDER.filter((state) => receiver.counts[state] > 0).map((state) => (
              <StateLabel
                key={state}
                state={{ ...STATES[state], word: `${receiver.counts[state]} ${STATES[state].word.toLowerCase()}` }}
              />
            ))}
          </summary>
          <Findings
            label={`Rules of ${receiver.name}`}
            findings={sortWorstFirst(receiver.rules).map((rule) => toFinding(rule, rule.text))}
          />
          <Anchor size="sm" href={receiver.url} target="_blank" rel="noreferrer">
            Rules of {receiver.name}, read on {receiver.read_on} (new tab)
          </Anchor>
        </details>
      ))}
    </div>
    <Group gap="xs">
      <Text size="sm">Badge for your pages, which says only how many are met:</Text>
      <CopyText value={rules.badge_url} what="the address of the badge" />
    </Group>
  </Section>
)

const sortWorstFirst = <Rule extends SenderRule>(rules: readonly Rule[]): readonly Rule[] =>
  rules.toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state))

/** What needs work, each thing once, with the receivers that demand it. */
function listUrgent({ receivers }: DomainRules): Finding[] {
  const all = receivers.flatMap(({ name, rules }) => rules.map((rule) => ({ ...rule, name })))
  const urgent = sortWorstFirst(all.filter(({ state }) => state === 'broken' || state === 'at_risk'))
  const groups = [...Map.groupBy(urgent, ({ check, state }) => `${state} ${check}`).values()]
  return groups.flatMap(([first, ...others]) =>
    first ? [toFinding(first, [first, ...others].map(({ name }) => name).join(', '))] : [],
  )
}

/** @param of what is demanded, or by whom */
const toFinding = (
  { check, state, title, binds, evidence, seen_at: seenAt, fix }: SenderRule,
  of: string,
): Finding => ({
  key: `${state} ${check}`,
  state: STATES[state],
  text: (
    <>
      <b className="row-title">{title}</b>
      <div>
        {binds === 'nobody' && 'Advised: '}
        {of}
      </div>
    </>
  ),
  note: (
    <>
      {evidence} {seenAt !== null && <Time iso={seenAt} />}
    </>
  ),
  advice: fix !== '' && `To do: ${fix}`,
})
