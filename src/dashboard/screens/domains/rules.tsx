/** @module What receivers demand of senders, and how this domain does: a page that can be printed. */
import { Anchor, Group, Text } from '@mantine/core'
import type { DomainRules, SenderRule } from '#client/api.ts'
import { SmallAction } from '../../parts/buttons.tsx'
import { CopyText } from '../../parts/copy.tsx'
import { type Finding, Findings } from '../../parts/findings.tsx'
import { Section } from '../../parts/page.tsx'
import { StateLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import type { State } from '../../parts/tone.ts'

type RuleState = SenderRule['state']

/** Worst first. */
const STATES: Readonly<Record<RuleState, State>> = {
  broken: { tone: 'bad', word: 'Broken' },
  at_risk: { tone: 'warning', word: 'At risk' },
  unknown: { tone: 'waiting', word: 'Unknown' },
  met: { tone: 'good', word: 'Met' },
  not_applicable: { tone: 'neutral', word: 'Does not apply' },
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
  advice: state !== 'met' && state !== 'not_applicable' && `To do: ${fix}`,
})
