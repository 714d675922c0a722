/** @module The holds and redirects of operators, each with a button that ends it. */
import { Button, Text } from '@mantine/core'
import { useState } from 'react'
import type { OperatorQueueRule } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { Section } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { useOne } from './queries.ts'
import { QueueDialog } from './queue-actions.tsx'
import { describeRule, toRuleSelector } from './queue-format.ts'

const MAX_SHOWN = 20

/** Nothing when there are none. */
export function QueueRules() {
  const rules = useOne(read.operator.listQueueRules()).data ?? []
  const [released, setReleased] = useState<OperatorQueueRule>()
  // The dialog outlives the last rule, to say that it ended.
  if (rules.length === 0 && !released) return null
  return (
    <Section title="Holds and redirects" isCard>
      <ul className="plain-list">
        {rules.slice(0, MAX_SHOWN).map((rule) => (
          <li key={rule.id}>
            <Text span inherit style={{ overflowWrap: 'anywhere' }}>
              <bdi>{describeRule(rule)}</bdi> {rule.to === null ? 'is held' : `goes to ${rule.to}`} since{' '}
              <Time iso={rule.created_at} />
              {rule.reason !== '' && (
                <>
                  : <bdi>{rule.reason}</bdi>
                </>
              )}
            </Text>{' '}
            <Button
              variant="default"
              size="compact-xs"
              aria-label={`Release: ${describeRule(rule)}`}
              onClick={() => setReleased(rule)}
            >
              Release
            </Button>
          </li>
        ))}
      </ul>
      {rules.length > MAX_SHOWN && (
        <Text c="dimmed">
          The {MAX_SHOWN} oldest of {rules.length.toLocaleString()}; `tassis queue --json` has all.
        </Text>
      )}
      {released && (
        <QueueDialog action="release" selector={toRuleSelector(released)} onClose={() => setReleased(undefined)} />
      )}
    </Section>
  )
}
