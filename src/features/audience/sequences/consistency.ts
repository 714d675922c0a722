/** @module Consistency rules of sequences. */
import { queryRule } from '#platform/db/consistency.ts'
import { STEP_KIND } from './people.ts'
import { CHANGE_KIND } from './sequences.ts'

export const sequenceSteps = queryRule({
  rule: 'every active person of an active sequence waits for a step, and nobody is in a sequence that does not exist',
  sql: `SELECT p.id AS person, s.id AS sequence FROM sequence_people p LEFT JOIN sequences s ON s.id = sequence_id
    WHERE s.id IS NULL OR (p.status = 'active') <> (ended_at IS NULL) OR (p.status = 'active' AND s.status = 'active'
      AND NOT EXISTS (SELECT 1 FROM notices WHERE kind = '${STEP_KIND}' AND topic = p.id)
      AND NOT EXISTS (SELECT 1 FROM notices WHERE kind = '${CHANGE_KIND}' AND topic = s.id))`,
  describe: (r) => `person ${r['person']} of sequence ${r['sequence']} has no next step, or no right end`,
})
