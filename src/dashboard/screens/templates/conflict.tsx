/** @module Somebody else saved the template meanwhile: shows both texts, and asks which to keep. */
import { Alert, Button, Group, Stack, Text } from '@mantine/core'
import { useEffect, useRef } from 'react'
import type { TemplateRecord } from '#features/setup/templates/model.ts'
import { Time } from '../../parts/time.tsx'
import { DiffView } from './diff-view.tsx'
import { FIELD_LABELS, FIELD_NAMES, type TemplateFields, toFields } from './texts.ts'

interface ConflictProps {
  readonly theirs: TemplateRecord
  /** One's own changes on top of theirs. */
  readonly merged: TemplateFields
  readonly isBusy: boolean
  onKeepMine(): void
  onTakeTheirs(): void
}

export function Conflict({ theirs, merged, isBusy, onKeepMine, onTakeTheirs }: ConflictProps) {
  const saved = toFields(theirs)
  const differing = FIELD_NAMES.filter((name) => saved[name] !== merged[name])
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => box.current?.focus(), [])
  return (
    <Alert color="yellow" title="This template was saved by somebody else" role="alert" ref={box} tabIndex={-1}>
      <Stack gap="sm">
        <Text>
          Version {theirs.version} was saved at <Time iso={theirs.updated_at} />. Nothing of yours was saved, and
          nothing is lost. Below is what your text would change in version {theirs.version}; what you did not change
          stays as in that version.
        </Text>
        {differing.length === 0 && <Text>Your text and the saved one are the same.</Text>}
        {differing.map((name) => (
          <DiffView key={name} level={2} title={FIELD_LABELS[name]} before={saved[name]} after={merged[name]} />
        ))}
        <Group>
          {differing.length > 0 && (
            <Button loading={isBusy} onClick={onKeepMine}>
              Save mine over version {theirs.version}
            </Button>
          )}
          <Button variant="default" onClick={onTakeTheirs}>
            Discard mine, take version {theirs.version}
          </Button>
        </Group>
      </Stack>
    </Alert>
  )
}
