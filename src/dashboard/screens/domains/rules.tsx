/** @module What receivers demand of senders, and how this domain does: a page that can be printed. */
import { Anchor, Group, List, Text } from '@mantine/core'
import type { SenderRule, SenderRuleReceiver } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { SmallAction } from '../../parts/buttons.tsx'
import { CopyText } from '../../parts/copy.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import type { Tone } from '../../parts/tone.ts'

type RuleState = SenderRule['state']

/** Worst first. */
const STATES: Readonly<Record<RuleState, { tone: Tone; word: string }>> = {
  broken: { tone: 'bad', word: 'Broken' },
  at_risk: { tone: 'warning', word: 'At risk' },
  unknown: { tone: 'waiting', word: 'Unknown' },
  met: { tone: 'good', word: 'Met' },
  not_applicable: { tone: 'neutral', word: 'Does not apply' },
}
const ORDER = Object.keys(STATES) as RuleState[]

export function SenderRules({ id }: { readonly id: string }) {
  const query = useData(read.domains.getRules(id))
  return (
    <Section
      title="Sender rules"
      description={query.data?.summary}
      action={<SmallAction onClick={() => window.print()}>Print</SmallAction>}
    >
      <QueryView query={query}>
        {({ receivers, badge_url: badge }) => (
          <>
            <Urgent receivers={receivers} />
            <div>
              {receivers.map((receiver) => (
                <Receiver key={receiver.id} receiver={receiver} />
              ))}
            </div>
            <Group gap="xs">
              <Text size="sm">Badge for your pages, which says only how many are met:</Text>
              <CopyText value={badge} what="the address of the badge" />
            </Group>
          </>
        )}
      </QueryView>
    </Section>
  )
}

/** What needs work, each thing once, with the receivers that demand it. */
function Urgent({ receivers }: { readonly receivers: readonly SenderRuleReceiver[] }) {
  const all = receivers.flatMap(({ name, rules }) => rules.map((rule) => ({ ...rule, name })))
  const groups = Map.groupBy(
    all.filter(({ state }) => state === 'broken' || state === 'at_risk'),
    ({ check, state }) => `${ORDER.indexOf(state)} ${check}`,
  )
  return (
    <List listStyleType="none" spacing="sm" data-part="urgent">
      {[...groups]
        .sort()
        .map(
          ([key, rules]) =>
            rules[0] && <Rule key={key} rule={rules[0]} of={rules.map(({ name }) => name).join(', ')} />,
        )}
    </List>
  )
}

const Receiver = ({ receiver }: { readonly receiver: SenderRuleReceiver }) => (
  <details className="sender-rules" data-receiver={receiver.id}>
    <summary>
      <strong>{receiver.name}</strong>
      {ORDER.filter((state) => receiver.counts[state] > 0).map((state) => (
        <StatusLabel key={state} tone={STATES[state].tone}>
          {receiver.counts[state]} {STATES[state].word.toLowerCase()}
        </StatusLabel>
      ))}
    </summary>
    <List listStyleType="none" spacing="sm">
      {ORDER.flatMap((state) => receiver.rules.filter((rule) => rule.state === state)).map((rule) => (
        <Rule key={rule.check} rule={rule} of={rule.text} />
      ))}
    </List>
    <Anchor size="sm" href={receiver.url} target="_blank" rel="noreferrer">
      Rules of {receiver.name}, read on {receiver.read_on} (new tab)
    </Anchor>
  </details>
)

const Rule = ({
  rule: { state, title, binds, evidence, seen_at: seenAt, fix },
  of,
}: {
  readonly rule: SenderRule
  readonly of: string
}) => (
  <List.Item data-state={state}>
    <StatusLabel tone={STATES[state].tone}>
      {STATES[state].word}: <strong>{title}</strong>
    </StatusLabel>
    <Text size="sm">
      {binds === 'nobody' && 'Advised: '}
      {of}
    </Text>
    <Text size="sm" c="dimmed">
      {evidence} {seenAt !== null && <Time iso={seenAt} />}
    </Text>
    {state !== 'met' && state !== 'not_applicable' && <Text size="sm">To do: {fix}</Text>}
  </List.Item>
)
