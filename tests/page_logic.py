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

    def test_events_are_complete_however_the_network_splits_them(self):
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

    def test_a_trend_reads_as_one_says_it(self):
        gib = 2**30
        trends = [
            {"metric": "temperature", "unit": "celsius", "kind": "growing", "per_hour": 3.21},
            {"metric": "memory_used", "unit": "bytes", "kind": "growing", "per_hour": gib,
             "limit_in_s": 1500},
            {"metric": "memory_used", "unit": "bytes", "kind": "growing", "per_hour": gib,
             "limit_in_s": 90000},
            {"metric": "host_memory_used", "unit": "bytes", "kind": "growing", "per_hour": gib,
             "limit_in_s": 5},
            {"metric": "clock_ratio", "unit": "percent", "kind": "falling", "per_hour": -12},
            {"metric": "ecc_corrected", "unit": "", "kind": "growing", "per_hour": 1200},
            {"metric": "power", "unit": "watts", "kind": "dropped", "at_ms": 0, "before": 700,
             "after": 300},
            {"metric": "next_year", "unit": "furlongs", "kind": "growing", "per_hour": 2},
        ]
        said = self.run_module(
            "const {inText, namedText} = await import('/assets/trends.js');"
            f"return {json.dumps(trends)}.map(inText).map(namedText)"
            "  .map(text => text.replaceAll('\\u00a0', ' ').replace(/at \\d\\d:\\d\\d/, 'at T'))"
        )
        self.assertEqual(
            said,
            [
                "Temperature rising 3.2 °C/h",
                "Memory rising 1.0 GiB/h, full in 25 min",
                "Memory rising 1.0 GiB/h",
                "Memory rising 1.0 GiB/h, full now",
                "SM clock falling 12.0 %/h",
                "Corrected memory errors rising 1,200/h",
                "Power dropped by 400 W at T",
                "next year rising 2/h",
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

    def test_the_ledger_adds_up_and_names_unowned_memory(self):
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

    def words(self, call):
        return self.run_module(f"const w = await import('/assets/lease_text.js'); return {call}")

    def test_a_lease_is_found_by_what_its_row_shows(self):
        leases = [
            {"lease_id": "12", "agent": "Scout", "state": "held", "priority": "high", "pid": 4711,
             "gpus": [{"gpu_uuid": "GPU-a"}], "enforcement": "observed", "model_type": "vision"},
            {"lease_id": "7", "agent": "trainer", "state": "waiting", "priority": "low", "gpus": []},
            {"lease_id": "8", "agent": "trainer", "state": "held", "priority": "low",
             "gpus": [{"gpu_uuid": "GPU-a"}], "over_use": 5},
        ]
        typed = ["", "scout", "TRAINER", "trainer gpu 3", "lease 12", "4711", "high", "waiting",
                 "over its", "vision scout", "nobody", "c4:00", "gpu 3", "trainer 1", "711"]
        found = self.words(
            f"{json.dumps(typed)}.map(typed => w.chooseRows({json.dumps(leases)}, typed, "
            "l => w.searchText(l, new Map([['GPU-a', {gpu_device: 3, bus: '0000:c4:00.0'}]])))"
            ".map(l => l.lease_id).join(' '))"
        )
        self.assertEqual(found, ["12 7 8", "12", "7 8", "8", "12", "12", "12", "7", "8", "12", "",
                                 "12 8", "12 8", "", "12"])

    def test_the_count_says_how_many_of_how_many_are_shown(self):
        self.assertEqual(
            self.words("[w.shownText(9, 9, 9), w.shownText(50, 340, 340), w.shownText(3, 3, 340),"
                       "w.shownText(50, 60, 340), w.shownText(0, 0, 340)]"),
            ["9 leases", "the first 50 of 340 leases", "3 of 340 leases",
             "50 of 60 found, of 340 leases", "none of 340 leases"])

    def test_a_state_is_shown_with_its_remark_and_reason(self):
        cpu = {"state": "on_cpu", "requested_gb": 9, "reason": "no capacity", "gpus": []}
        waits = {**cpu, "state": "waiting"}
        yields = {"state": "yielding", "yield_in_s": 5, "memory_gb": 8, "reason": "best fit",
                  "yield_reason": "urgent asks for 8.0 GiB"}
        shown = self.words(
            f"[w.stateText({json.dumps(cpu)}, 0), "
            f"w.stateText({json.dumps(waits)}, 0, {{place: {{at: 2, of: 3}}}}), "
            f"w.stateText({json.dumps(yields)}, 2), w.stateText({json.dumps(yields)}, 9), "
            "w.stateText({state: 'held', reason: 'best fit'}, 0),"
            "w.stateText({state: 'held'}, 0, {broken: {why: 'fell off the bus'}}),"
            "w.stateText({state: 'held', memory_gb: 8, over_use: 3 * 2 ** 30}, 0),"
            "w.stateText({state: 'yielding', yield_in_s: 5, over_use: 2 ** 30}, 0)]"
            ".map(s => [s.word, s.remark, s.reason])"
        )
        self.assertEqual(
            shown,
            [
                ["On the CPU", "9.0 GiB requested", "No capacity"],
                ["Waiting", "9.0 GiB requested, place 2 of 3 in the queue", "No capacity"],
                ["Asked to yield", "3 s left to give it back", "Urgent asks for 8.0 GiB"],
                ["Asked to yield", "4 s overdue", "Urgent asks for 8.0 GiB"],
                ["Held", "", ""],
                ["GPU not usable", "Fell off the bus", ""],
                ["Over its lease", "uses 3.0 GiB more than promised", ""],
                ["Asked to yield", "5 s left to give it back; uses 1.0 GiB more than promised", ""],
            ],
        )

    def lanes(self, leases, **more):
        options = {"from": 0, "to": 1000000, "by": "gpu", **more}
        return self.run_module(
            "const {lanesOf} = await import('/assets/timeline_lanes.js');"
            f"return lanesOf({json.dumps(leases)}, {json.dumps(options)})"
            ".map(l => [l.key, l.rows, l.bars.map(b => [b.key, b.row,"
            " Math.round(1000 * b.left), Math.round(1000 * b.width)])])"
        )

    def test_overlapping_bars_are_stacked_in_rows_and_bars_outside_the_span_are_dropped(self):
        def lease(id, agent, asked, granted, ended, *gpus, state="ended"):
            return {"lease_id": id, "agent": agent, "state": state, "requested_ms": asked,
                    "granted_ms": granted, "ended_ms": ended,
                    "gpus": [{"gpu_uuid": g} for g in gpus]}

        leases = [
            lease("1", "a", -9000, -9000, -1, "g0"),  # over before
            lease("2", "a", -500000, -500000, 500000, "g0"),
            lease("3", "b", 200000, 400000, None, "g0", "g1", state="held"),
            lease("4", "c", 600000, 600000, 600001, "g0"),
            lease("5", "c", 900000, None, None, state="on_cpu"),
        ]
        self.assertEqual(
            self.lanes(leases, first=["g0", "g1", "g2"]),
            [
                ["g0", 2, [["2 held", 0, 0, 500], ["3 held", 1, 400, 600], ["4 held", 0, 600, 4]]],
                ["g1", 1, [["3 held", 0, 400, 600]]],
                ["g2", 1, []],
                ["no gpu", 1, [["3 waiting", 0, 200, 200], ["5 cpu", 0, 900, 100]]],
            ],
        )
        by_agent = self.lanes(leases, by="agent")
        self.assertEqual([lane[0] for lane in by_agent], ["a", "b", "c"])
        self.assertEqual([bar[0] for bar in by_agent[1][2]], ["3 waiting", "3 held"])

    def test_a_crowded_timeline_lane_draws_open_bars_first(self):
        crowd = [{"lease_id": str(n), "agent": "a", "state": "on_cpu", "requested_ms": 100 + n,
                  "granted_ms": None, "ended_ms": 900 if n < 38 else None, "gpus": []}
                 for n in range(40)]
        lane = self.run_module(
            "const {lanesOf} = await import('/assets/timeline_lanes.js');"
            f"const [lane] = lanesOf({json.dumps(crowd)}, {{from: 0, to: 1000, by: 'gpu'}});"
            "return [lane.rows, lane.bars.length, lane.left, lane.bars[0].key, lane.bars[1].key]")
        self.assertEqual(lane, [12, 12, 28, "38 cpu", "39 cpu"])
