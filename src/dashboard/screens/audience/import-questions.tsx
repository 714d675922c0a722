/** @module Asks what a file says about who gets no mail, where the server does not know its words. */
import { Group, NativeSelect, Stack, Text } from '@mantine/core'
import type { PreviewContactImportResult } from '#client/api.ts'
import { bindText } from '../../parts/form.tsx'
import { Notice } from '../../parts/status.tsx'

export type Question = PreviewContactImportResult['questions'][number]
/** As the parameter `columns` has them: the meaning of a column, or of its values. */
export type Answers = Readonly<Record<string, string | Readonly<Record<string, string>>>>

const NONE = { value: '', label: 'Choose', disabled: true }
const COLUMN_MEANINGS = [
  NONE,
  { value: 'metadata', label: 'Nothing about mail: keep it as metadata' },
  { value: 'ignore', label: 'Nothing about mail: ignore it' },
  ...['subscribed', 'confirmed', 'unsubscribed', 'bounced', 'complained'].map((value) => ({
    value,
    label: `Yes means ${value}`,
  })),
]
const STATUSES = [NONE, 'active', 'pending', 'unsubscribed', 'bounced', 'complained']

interface ImportQuestionsProps {
  readonly questions: readonly Question[]
  readonly answers: Answers
  onAnswer(answers: Answers): void
}

export function ImportQuestions({ questions, answers, onAnswer }: ImportQuestionsProps) {
  if (questions.length === 0) return null
  return (
    <Notice tone="warning" title="Who gets no mail?">
      <Stack gap="sm">
        <Text>These columns may say who must not get mail. Say what they, or their values, mean.</Text>
        {questions.map(({ column, values }) => {
          const answer = answers[column]
          const byValue = typeof answer === 'object' ? answer : {}
          return (
            <Group key={column} align="end">
              <NativeSelect
                label={column === '' ? 'Column without a name' : `Column ${column}`}
                data={COLUMN_MEANINGS}
                {...bindText(typeof answer === 'string' ? answer : '', (value) =>
                  onAnswer({ ...answers, [column]: value }),
                )}
              />
              {values.map((value) => (
                <NativeSelect
                  key={value}
                  label={value === '' ? 'An empty cell' : `“${value}”`}
                  data={STATUSES}
                  {...bindText(byValue[value] ?? '', (meaning) =>
                    onAnswer({ ...answers, [column]: { ...byValue, [value]: meaning } }),
                  )}
                />
              ))}
            </Group>
          )
        })}
      </Stack>
    </Notice>
  )
}
