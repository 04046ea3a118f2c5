"""The pure parts of the page, run where they will run; part of page_test.py."""

import json

from page_case import PageTest


class Logic(PageTest):
    """The pure parts of the page, run where they will run."""

    arguments = ("--demo", "eight-gpus")

    def run_module(self, code):
        answer = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "(async () => {" + code + "})().then(v => done({v}), e => done({e: String(e)}))"
        )
        self.assertNotIn("e", answer)
        return answer["v"]

    def judge(self, states, **more):
        gpus = [
            {"health": {"state": s, "cause": "fell off the bus", "since_s": 12}} for s in states
        ]
        return self.run_module(
            "const {judge} = await import('/assets/verdict.js');"
            f"return judge({json.dumps({'gpus': gpus, **more})}, 1)"
        )

    def test_the_verdict_names_the_worst_first_and_its_cause(self):
        self.assertEqual(self.judge(["healthy"] * 8)["head"], "All 8 GPUs are healthy")
        self.assertEqual(self.judge(["healthy"])["head"], "The GPU is healthy")
        alarm = self.judge(["healthy"] * 2, alerts=[{"severity": "critical"}])
        self.assertEqual(
            alarm,
            {"state": "degraded", "head": "Both GPUs are healthy", "tail": "1 alert to look at"},
        )
        one = self.judge(["healthy"] * 7 + ["lost"])
        self.assertEqual((one["state"], one["head"]), ("lost", "7 of 8 GPUs healthy"))
        self.assertEqual(one["tail"], "1 lost 13 s ago: fell off the bus")
        many = self.judge(["degraded", "lost", "lost", "probation"])
        self.assertEqual(
            many["tail"],
            "2 lost; 1 degraded for 13 s: fell off the bus; "
            "1 on probation for 13 s: fell off the bus",
        )
        self.assertEqual(self.judge([])["head"], "Running on the CPU")

    def test_events_are_whole_however_the_network_cuts_them(self):
        text = (
            ': hello\nretry: 5\n\nid: 7-1\nevent: alert\ndata: {"a":\ndata: 1}\n\ndata: x\r\n\r\n'
        )
        events = self.run_module(
            "const {EventParser} = await import('/assets/stream.js'); const all = [];"
            f"for (let n = 1; n < 9; ++n) {{ const seen = []; const text = {json.dumps(text)};"
            "  const parser = new EventParser(e => seen.push([e.type, e.id, e.data]));"
            "  for (let i = 0; i < text.length; i += n) parser.push(text.slice(i, i + n));"
            "  all.push(JSON.stringify(seen)); } return all"
        )
        self.assertEqual(
            {json.dumps(json.loads(e)) for e in events},
            {json.dumps([["alert", "7-1", '{"a":\n1}'], ["message", "7-1", "x"]])},
        )

    def test_numbers_read_as_people_read_them(self):
        said = self.run_module(
            "const f = await import('/assets/format.js');"
            "return [f.bytes(150754820096), f.bytesOf(2 ** 30, 2 ** 40), f.percent(99.6),"
            " f.percent(undefined), f.duration(59.6), f.duration(3725), f.milliseconds(0.25),"
            " f.milliseconds(1500), f.share(0.042),"
            " f.perSecond(3.25), f.plural(1, 'GPU')]"
        )
        self.assertEqual(
            said,
            [
                "140.4 GiB",
                "0.0 of 1.0 TiB",
                "100 %",
                "\u2013",
                "1 min 0 s",
                "1 h 2 min",
                "250 \u00b5s",
                "1.5 s",
                "0.042 %",
                "3.3 /s",
                "1 GPU",
            ],
        )

    def test_a_time_without_samples_is_a_hole_and_a_slow_metric_is_not(self):
        rows = self.run_module(
            "const {rowsOf} = await import('/assets/series.js');"
            "const s = v => ({t: v, mean: v, min: v, max: v});"
            "const fast = s([0, 1000, 2000, 90000]), slow = s([0, 5000]);"
            "return rowsOf({step_s: 1, metrics: {fast, slow}}, ['fast', 'slow'])"
            "  .map(r => [r[0].getTime(), String(r[1][1]), String(r[2][1])])"
        )
        self.assertEqual([r[1] for r in rows], ["0", "1000", "2000", "null", "NaN", "90000"])
        self.assertNotIn("NaN", [r[2] for r in rows])

    def test_eight_tiles_where_six_fit_stand_as_four_and_four(self):
        columns = self.run_module(
            "const {columnsFor: c} = await import('/assets/balance.js');"
            "return [c(8, 6), c(8, 8), c(8, 1), c(3, 6), c(5, 4), c(0, 4)]"
        )
        self.assertEqual(columns, [4, 8, 1, 3, 3, 1])

    def test_the_ledger_adds_up_and_names_what_nobody_owns(self):
        parts = self.run_module(
            "const {partsOf} = await import('/assets/ledger.js'); const G = 2 ** 30;"
            "const list = [{pid: 1, name: 'a', kind: 'compute', memory_bytes: 3 * G}];"
            "return partsOf({processes: {list}}, {used: 5 * G, reserved: G, total: 10 * G})"
            "  .map(p => [p.key, p.bytes / G])"
        )
        self.assertEqual(parts, [["1compute", 3], ["unknown", 2], ["reserved", 1], ["free", 4]])

    def test_a_hostile_process_name_stays_text(self):
        name = '<img src=x onerror="window.owned = true"><script>window.owned = true</script>'
        shown = self.run_module(
            "const {ProcessTable} = await import('/assets/process_table.js');"
            "const table = new ProcessTable({withGpu: false}); document.body.append(table.node);"
            f"table.update([{{pid: 1, name: {json.dumps(name)}, user: '<b>', kind: 'compute'}}]);"
            "await new Promise(r => setTimeout(r, 100));"
            "return [table.node.querySelectorAll('img, script, b').length, window.owned ?? false,"
            " table.node.querySelector('td.col-name').textContent]"
        )
        self.assertEqual(shown, [0, False, name])
