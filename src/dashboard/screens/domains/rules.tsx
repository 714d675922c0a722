/** @module What receivers demand of senders, and how this domain does: a page that can be printed. */
import { Anchor, Group, List, Text } from '@mantine/core'
import type { DomainRules, SenderRule, SenderRuleReceiver } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { SmallAction } from '../../parts/buttons.tsx'
import { CopyText } from '../../parts/copy.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import type { Tone } from '../../parts/tone.ts'

type RuleState = SenderRule['state']

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
      description={query.data?.summary ?? 'What large receivers demand of senders, and how this domain does.'}
      action={<SmallAction onClick={() => window.print()}>Print</SmallAction>}
    >
      <QueryView query={query}>
        {({ receivers, badge_url: badge }: DomainRules) => (
          <>
            {receivers.map((receiver) => (
              <Receiver key={receiver.id} receiver={receiver} />
            ))}
            <Group gap="xs">
              <Text size="sm">Badge for your pages, with these counts only:</Text>
              <CopyText value={badge} what="the address of the badge" />
            </Group>
          </>
        )}
      </QueryView>
    </Section>
  )
}

/** Open where something needs work. Paper shows all of them. */
const Receiver = ({
  receiver: { id, name, counts, rules, url, read_on: readOn },
}: {
  readonly receiver: SenderRuleReceiver
}) => (
  <details className="sender-rules" data-receiver={id} open={counts.broken + counts.at_risk > 0}>
    <summary>
      <strong>{name}</strong>
      {ORDER.filter((state) => counts[state] > 0).map((state) => (
        <StatusLabel key={state} tone={STATES[state].tone}>
          {counts[state]} {STATES[state].word.toLowerCase()}
        </StatusLabel>
      ))}
    </summary>
    <List className="plain-list" listStyleType="none" spacing="sm">
      {rules
        .toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state))
        .map((rule) => (
          <List.Item key={rule.check} data-state={rule.state}>
            <StatusLabel tone={STATES[rule.state].tone}>
              {STATES[rule.state].word}: <strong>{rule.title}</strong>
              {rule.binds === 'nobody' && ' (advised)'}
            </StatusLabel>
            <Text size="sm">{rule.text}</Text>
            <Text size="sm" c="dimmed">
              {rule.evidence} {rule.seen_at !== null && <Time iso={rule.seen_at} />}
            </Text>
            {rule.state !== 'met' && rule.state !== 'not_applicable' && <Text size="sm">To do: {rule.fix}</Text>}
          </List.Item>
        ))}
    </List>
    <Anchor size="sm" href={url} target="_blank" rel="noreferrer">
      Rules of {name}, read on {readOn} (new tab)
    </Anchor>
  </details>
)
